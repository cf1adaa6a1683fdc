"""What the gateway can do itself, inside a workspace and under rules."""
