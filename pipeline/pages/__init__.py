"""What all web pages share: the view of an answer with its claims marked, safe texts, and the style."""
