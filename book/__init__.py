"""How the book is installed, opened, run and kept honest: one module for each of the Makefile's commands."""
