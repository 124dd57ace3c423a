# SPDX-License-Identifier: Apache-2.0
"""Commands of ``openstack appcontainer``: placement options, the picture of a host, groups, host aggregates and more.

The commands are registered in the entry-point group ``openstack.extension``. The client loads this group after
python-zunclient's own, so the commands replace those of the same name. Without any of the new options, they send the
same requests as python-zunclient to every server.
"""
