"""Ways to reach a service that answers questions, behind one narrow interface."""
