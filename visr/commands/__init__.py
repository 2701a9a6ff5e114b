"""The verbs of the command line, a file each: options in, library call, words out."""
