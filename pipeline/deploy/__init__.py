"""What a cloud needs: Flex Templates, their launcher, and the reference pages."""
