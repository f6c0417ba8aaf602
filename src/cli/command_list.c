#include "cli/command_list.h"

#include "cli/cli_commands.h"

const struct cli_command *const cli_commands[] = {
    /* Run a command. */
    &cli_command_lock,
    &cli_command_elect,
    &cli_command_reserve,
    &cli_command_session,
    &cli_command_cron,
    &cli_command_exec,
    /* Look. */
    &cli_command_ls,
    &cli_command_get,
    &cli_command_why,
    &cli_command_watch,
    &cli_command_top,
    &cli_command_advise,
    &cli_command_status,
    /* Change. */
    &cli_command_grant,
    &cli_command_renew,
    &cli_command_revoke,
    &cli_command_pool_set,
    &cli_command_pool_ls,
    &cli_command_pool_rm,
    &cli_command_fence_check,
    &cli_command_fence_get,
    /* The cluster. */
    &cli_command_member_ls,
    &cli_command_member_add,
    &cli_command_member_rm,
    &cli_command_member_update,
    &cli_command_member_promote,
    &cli_command_snapshot_save,
    &cli_command_snapshot_restore,
    &cli_command_auth_enable,
    &cli_command_auth_disable,
    &cli_command_auth_status,
    &cli_command_user_add,
    &cli_command_user_ls,
    &cli_command_user_get,
    &cli_command_user_rm,
    &cli_command_user_passwd,
    &cli_command_user_grant,
    &cli_command_user_revoke,
    &cli_command_role_add,
    &cli_command_role_ls,
    &cli_command_role_get,
    &cli_command_role_rm,
    &cli_command_role_grant,
    &cli_command_role_revoke,
    /* Other. */
    &cli_command_bench,
    &cli_command_completion,
    &cli_command_help,
    NULL,
};
