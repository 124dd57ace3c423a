"""Tests of zun.compute.audit."""
