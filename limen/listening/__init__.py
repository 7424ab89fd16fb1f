"""Real listeners: studies on the web, their design, their answers and what these say."""
