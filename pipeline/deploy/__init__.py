"""Makes the Dataflow Flex Templates and their launcher, and the reference pages of the documentation."""
