# SPDX-License-Identifier: Apache-2.0
from zun.policies.roles import ADMIN, MEMBER, NOBODY, READER, rule

_LIST = "GET /v1/containers"
_CREATE = "POST /v1/containers"
_ITEM = "/v1/containers/{ident}"
_SHOWN = (_LIST, f"GET {_ITEM}")

RULES = (
    rule("container:create", MEMBER, "Create a container.", _CREATE),
    rule(
        "container:create:privileged",
        NOBODY,
        "Name 'privileged' when creating a container, whatever its value. A privileged container is root on its host.",
        _CREATE,
    ),
    rule("container:create:runtime", ADMIN, "Choose the runtime of a new container.", _CREATE),
    rule("container:create:requested_destination", ADMIN, "Choose the host of a new container.", _CREATE),
    rule("container:create:image_pull_policy", ADMIN, "Choose when the image is pulled.", _CREATE),
    rule("container:get_all", READER, "List the containers of the own project.", _LIST),
    rule("container:get_all_all_projects", ADMIN, "List the containers of every project.", _LIST),
    rule("container:get_one", READER, "Show a container.", f"GET {_ITEM}"),
    rule("container:get_one_all_projects", ADMIN, "Show a container of any project.", f"GET {_ITEM}"),
    rule("container:get_one:host", ADMIN, "See the host of a container, and filter or sort by it.", *_SHOWN),
    rule("container:get_one:image_pull_policy", ADMIN, "See when the image of a container is pulled.", *_SHOWN),
    rule("container:get_one:privileged", ADMIN, "See whether a container is privileged.", *_SHOWN),
    rule("container:get_one:runtime", ADMIN, "See the runtime of a container.", *_SHOWN),
    rule("container:update", MEMBER, "Change name, cpu, memory or auto_heal of a container.", f"PATCH {_ITEM}"),
    rule("container:delete", MEMBER, "Delete a container.", f"DELETE {_ITEM}"),
    rule("container:delete_force", ADMIN, "Delete a container whatever its status.", f"DELETE {_ITEM}"),
    rule("container:delete_all_projects", ADMIN, "Delete a container of any project.", f"DELETE {_ITEM}"),
    rule("container:start", MEMBER, "Start a container.", f"POST {_ITEM}/start"),
    rule("container:stop", MEMBER, "Stop a container.", f"POST {_ITEM}/stop"),
    rule("container:reboot", MEMBER, "Restart a container.", f"POST {_ITEM}/reboot"),
    rule("container:pause", MEMBER, "Pause a container.", f"POST {_ITEM}/pause"),
    rule("container:unpause", MEMBER, "Unpause a container.", f"POST {_ITEM}/unpause"),
    rule("container:kill", MEMBER, "Send a signal to a container.", f"POST {_ITEM}/kill"),
    rule("container:rebuild", MEMBER, "Make a container anew, of another image too.", f"POST {_ITEM}/rebuild"),
    rule("container:rename", MEMBER, "Rename a container.", f"POST {_ITEM}/rename"),
    rule(
        "container:resize_container",
        MEMBER,
        "Change cpu or memory of a container in the background.",
        f"POST {_ITEM}/resize_container",
    ),
    rule("container:logs", READER, "Read the log of a container.", f"GET {_ITEM}/logs"),
    rule("container:execute", MEMBER, "Run a command in a container.", f"POST {_ITEM}/execute"),
    rule(
        "container:execute_resize",
        MEMBER,
        "Tell a command in a container the size of its terminal.",
        f"POST {_ITEM}/execute_resize",
    ),
    rule("container:attach", MEMBER, "Open the terminal of a container.", f"GET {_ITEM}/attach"),
    rule("container:resize", MEMBER, "Tell a container the size of its terminal.", f"POST {_ITEM}/resize"),
    rule("container:top", READER, "List the processes of a container.", f"GET {_ITEM}/top"),
    rule("container:explain", READER, "See why a container found no host.", f"GET {_ITEM}/explain"),
    rule(
        "container:explain:host",
        ADMIN,
        "See which hosts refused it, and what each has on its memory nodes.",
        f"GET {_ITEM}/explain",
    ),
    rule("container:stats", READER, "See what a container uses.", f"GET {_ITEM}/stats"),
    rule("container:network_list", READER, "List the networks of a container.", f"GET {_ITEM}/network_list"),
    rule("container:network_attach", MEMBER, "Put a container into a network.", f"POST {_ITEM}/network_attach"),
    rule("container:network_detach", MEMBER, "Take a container off a network.", f"POST {_ITEM}/network_detach"),
    rule(
        "container:add_security_group",
        MEMBER,
        "Add a security group to a container.",
        f"POST {_ITEM}/add_security_group",
    ),
    rule(
        "container:remove_security_group",
        MEMBER,
        "Remove a security group from a container.",
        f"POST {_ITEM}/remove_security_group",
    ),
    rule("container:get_archive", MEMBER, "Read files of a container.", f"GET {_ITEM}/get_archive"),
    rule("container:commit", MEMBER, "Make an image of a container.", f"POST {_ITEM}/commit"),
    rule("container:put_archive", MEMBER, "Write files of a container.", f"POST {_ITEM}/put_archive"),
)
