"""What is measured of the talk: judges' ratings, entities, and how replies match the reference."""
