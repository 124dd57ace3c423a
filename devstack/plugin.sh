#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# devstack sources this file at every phase: plugin.sh MODE [PHASE].

# Save trace setting
_XTRACE_ZUN_PLUGIN=$(set +o | grep xtrace)
set +o xtrace

source "$ZUN_DIR/devstack/lib/zun"

if is_service_enabled zun-api zun-scheduler zun-conductor zun-compute zun-wsproxy; then
    case "$1 $2" in
        "stack install")
            echo_summary "Installing zun"
            install_zun
            install_zunclient
            cleanup_zun
            ;;
        "stack post-config")
            echo_summary "Configuring zun"
            configure_zun
            if is_service_enabled zun-api && is_service_enabled key; then
                create_zun_accounts
            fi
            ;;
        "stack extra")
            echo_summary "Starting zun"
            if is_service_enabled zun-api; then
                init_zun
            fi
            start_zun
            ;;
        "stack test-config")
            if is_service_enabled tempest; then
                configure_zun_tempest
            fi
            ;;
        "unstack ")
            stop_zun
            ;;
        "clean ")
            cleanup_zun
            ;;
    esac
fi

# Restore xtrace
$_XTRACE_ZUN_PLUGIN
