/* Every command there is; `cli_commands` lists them in order. */
#ifndef LEASED_CLI_COMMAND_LIST_H
#define LEASED_CLI_COMMAND_LIST_H

#include "cli/cli.h"

extern const struct cli_command cli_command_lock;
extern const struct cli_command cli_command_elect;
extern const struct cli_command cli_command_reserve;
extern const struct cli_command cli_command_session;
extern const struct cli_command cli_command_cron;
extern const struct cli_command cli_command_exec;
extern const struct cli_command cli_command_ls;
extern const struct cli_command cli_command_get;
extern const struct cli_command cli_command_why;
extern const struct cli_command cli_command_watch;
extern const struct cli_command cli_command_top;
extern const struct cli_command cli_command_advise;
extern const struct cli_command cli_command_status;
extern const struct cli_command cli_command_register;
extern const struct cli_command cli_command_discover;
extern const struct cli_command cli_command_render;
extern const struct cli_command cli_command_service_ls;
extern const struct cli_command cli_command_service_show;
extern const struct cli_command cli_command_service_drain;
extern const struct cli_command cli_command_service_undrain;
extern const struct cli_command cli_command_service_deregister;
extern const struct cli_command cli_command_service_set;
extern const struct cli_command cli_command_grant;
extern const struct cli_command cli_command_renew;
extern const struct cli_command cli_command_revoke;
extern const struct cli_command cli_command_pool_set;
extern const struct cli_command cli_command_pool_ls;
extern const struct cli_command cli_command_pool_rm;
extern const struct cli_command cli_command_fence_check;
extern const struct cli_command cli_command_fence_get;
extern const struct cli_command cli_command_member_ls;
extern const struct cli_command cli_command_member_add;
extern const struct cli_command cli_command_member_rm;
extern const struct cli_command cli_command_member_update;
extern const struct cli_command cli_command_member_promote;
extern const struct cli_command cli_command_snapshot_save;
extern const struct cli_command cli_command_snapshot_restore;
extern const struct cli_command cli_command_import;
extern const struct cli_command cli_command_auth_enable;
extern const struct cli_command cli_command_auth_disable;
extern const struct cli_command cli_command_auth_status;
extern const struct cli_command cli_command_user_add;
extern const struct cli_command cli_command_user_ls;
extern const struct cli_command cli_command_user_get;
extern const struct cli_command cli_command_user_rm;
extern const struct cli_command cli_command_user_passwd;
extern const struct cli_command cli_command_user_grant;
extern const struct cli_command cli_command_user_revoke;
extern const struct cli_command cli_command_role_add;
extern const struct cli_command cli_command_role_ls;
extern const struct cli_command cli_command_role_get;
extern const struct cli_command cli_command_role_rm;
extern const struct cli_command cli_command_role_grant;
extern const struct cli_command cli_command_role_revoke;
extern const struct cli_command cli_command_bench;
extern const struct cli_command cli_command_completion;
extern const struct cli_command cli_command_help;

#endif
