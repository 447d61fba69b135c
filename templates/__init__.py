"""Files for Google Cloud: the Flex Templates, and the SQL views over the tables."""
