"""The commands of `groundrows`, a file each."""
