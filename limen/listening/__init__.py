"""Studies with listeners on the web: their design, answers and results."""
