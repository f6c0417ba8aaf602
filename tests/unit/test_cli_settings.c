#include "cli/cli_settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct option_entry options[] = {
    {"--endpoints", 0, "LIST", "a value"},
    {"--json", 0, NULL, "a flag"},
    {"--help", 'h', NULL, "not a setting"},
    {NULL, 0, NULL, NULL},
};

static enum status parse(struct cli_settings *settings, const char *text, char *error) {
    static char room[4096];
    memset(settings, 0, sizeof *settings);
    error[0] = '\0';
    strcpy(room, text);
    return cli_settings_parse(settings, options, room, "config", error);
}

static void lines_with_names_and_values_are_read(void **state) {
    struct cli_settings settings;
    char error[CLI_SETTINGS_ERROR_SIZE_MAX];
    struct arguments arguments = {.tables = {options, NULL}};
    assert_int_equal(parse(&settings, "# where\n\n  endpoints = a:1,b:2 \r\njson=true", error),
                     STATUS_OK);
    assert_string_equal(cli_setting(&settings, &arguments, "--endpoints"), "a:1,b:2");
    assert_true(cli_setting_is_true(&settings, &arguments, "--json"));
}

static void the_command_line_wins_then_the_environment_then_the_file(void **state) {
    struct cli_settings settings;
    char error[CLI_SETTINGS_ERROR_SIZE_MAX];
    struct arguments arguments = {.tables = {options, NULL}};
    char *argv[] = {"--endpoints", "line"};
    assert_int_equal(parse(&settings, "endpoints = file", error), STATUS_OK);
    setenv("ETCDCTL_ENDPOINTS", "theirs", 1);
    assert_string_equal(cli_setting(&settings, &arguments, "--endpoints"), "theirs");
    setenv("LEASED_ENDPOINTS", "ours", 1);
    assert_string_equal(cli_setting(&settings, &arguments, "--endpoints"), "ours");
    assert_int_equal(arguments_parse(&arguments, 2, argv, false), 2);
    assert_string_equal(cli_setting(&settings, &arguments, "--endpoints"), "line");
    unsetenv("LEASED_ENDPOINTS");
    unsetenv("ETCDCTL_ENDPOINTS");
}

static void what_is_no_setting_is_named_with_its_line(void **state) {
    struct cli_settings settings;
    char error[CLI_SETTINGS_ERROR_SIZE_MAX];
    assert_int_equal(parse(&settings, "\nendpoint", error), STATUS_MALFORMED);
    assert_non_null(strstr(error, "config line 2, endpoint: a line is `name = value`"));
    assert_int_equal(parse(&settings, "colour = red", error), STATUS_MALFORMED);
    assert_non_null(strstr(error, "there is no such setting"));
    assert_int_equal(parse(&settings, "help = true", error), STATUS_MALFORMED);
    assert_int_equal(parse(&settings, "json = maybe", error), STATUS_MALFORMED);
    assert_non_null(strstr(error, "true or false"));
}

static void too_many_lines_are_refused(void **state) {
    struct cli_settings settings;
    char error[CLI_SETTINGS_ERROR_SIZE_MAX];
    char text[4096] = "";
    for (int i = 0; i <= CLI_SETTINGS_MAX; i++) {
        strcat(text, "json = true\n");
    }
    assert_int_equal(parse(&settings, text, error), STATUS_MALFORMED);
    assert_non_null(strstr(error, "too many"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_with_names_and_values_are_read),
        cmocka_unit_test(the_command_line_wins_then_the_environment_then_the_file),
        cmocka_unit_test(what_is_no_setting_is_named_with_its_line),
        cmocka_unit_test(too_many_lines_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
