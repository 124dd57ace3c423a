# SPDX-License-Identifier: Apache-2.0
"""What ``openstack appcontainer`` gains: placement options, the picture of a host, groups and host aggregates.

The commands are registered in the entry-point group ``openstack.extension``, which the client loads after
python-zunclient's own group, so that they replace its commands of the same name. Without one of the new
options they send exactly what python-zunclient sends, whichever server answers.
"""
