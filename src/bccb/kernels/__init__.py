"""Compiled mathematics without input or output: the compiler, random numbers, linear algebra."""
