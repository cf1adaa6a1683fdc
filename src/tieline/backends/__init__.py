"""Who answers: each backend reaches one kind of upstream and gives runs."""
