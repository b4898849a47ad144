"""Source trees that programs and agents use, with repositories, images and environments."""
