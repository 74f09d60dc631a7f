"""For operators: health, metrics, models, the page at / and the API documentation."""
