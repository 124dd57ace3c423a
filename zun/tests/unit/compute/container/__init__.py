"""Tests of zun.compute.container."""
