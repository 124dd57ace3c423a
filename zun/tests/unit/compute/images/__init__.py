"""Tests of zun.compute.images."""
