"""What a cloud needs: the Flex Templates, and the views over the tables."""
