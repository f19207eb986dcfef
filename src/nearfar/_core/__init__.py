"""What all rooms stand on: checks of arguments, ids, threads, random draws, vector code, files that appear whole."""
