"""Tests of zun.compute.host."""
