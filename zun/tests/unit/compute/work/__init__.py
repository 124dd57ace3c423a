"""Tests of zun.compute.work."""
