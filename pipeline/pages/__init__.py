"""What the report and the reader show alike: answers with their claims marked, texts made safe, one style."""
