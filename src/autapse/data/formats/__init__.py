"""One upstream file format per file: bytes in, arrays out; a damaged file gives one line with file and position."""
