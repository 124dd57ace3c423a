"""Tests of zun.compute.kept."""
