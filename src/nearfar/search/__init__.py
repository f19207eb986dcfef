"""Search for what is near: exactly by products, in compiled lists, by given distances, and by indexes of others."""
