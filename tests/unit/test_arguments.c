#include "base/arguments.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct option_entry options[] = {
    {"--name", 'n', "NAME", "a value"},
    {"--flag", 'f', NULL, "no value"},
    {"--count", 0, "N", "a number"},
    {NULL, 0, NULL, NULL},
};

#define PARSE(arguments, ...)                                                                      \
    parse(arguments, (char *[]){__VA_ARGS__}, sizeof((char *[]){__VA_ARGS__}) / sizeof(char *))

static int parse(struct arguments *arguments, char **argv, size_t argc) {
    memset(arguments, 0, sizeof *arguments);
    arguments->tables[0] = options;
    return arguments_parse(arguments, (int)argc, argv, false);
}

static void words_and_options_come_in_any_order(void **state) {
    struct arguments arguments;
    assert_int_equal(PARSE(&arguments, "one", "--name", "x", "two", "--flag"), 5);
    assert_int_equal(arguments.n_words, 2);
    assert_string_equal(arguments.words[1], "two");
    assert_string_equal(arguments_value(&arguments, "--name"), "x");
    assert_true(arguments_has(&arguments, "--flag"));
    assert_false(arguments_has(&arguments, "--count"));
    assert_null(arguments_value(&arguments, "--count"));
}

static void values_may_be_given_with_an_equals_sign_or_a_letter(void **state) {
    struct arguments arguments;
    assert_true(PARSE(&arguments, "--name=a=b") > 0);
    assert_string_equal(arguments_value(&arguments, "--name"), "a=b");
    assert_true(PARSE(&arguments, "-n", "-f") > 0);
    assert_string_equal(arguments_value(&arguments, "--name"), "-f");
    assert_false(arguments_has(&arguments, "--flag"));
}

static void a_command_after_dashes_is_left_alone(void **state) {
    struct arguments arguments = {.tables = {options, NULL}, .stops_at_dashes = true};
    char *argv[] = {"one", "-n", "--", "--", "echo", "--flag"};
    assert_int_equal(arguments_parse(&arguments, 6, argv, false), 4);
    assert_true(arguments.has_dashes);
    assert_int_equal(arguments.n_words, 1);
    assert_string_equal(arguments_value(&arguments, "--name"), "--");
    assert_false(arguments_has(&arguments, "--flag"));
}

static void a_flag_may_be_true_or_false(void **state) {
    struct arguments arguments;
    assert_true(PARSE(&arguments, "--flag=true") > 0);
    assert_true(arguments_has(&arguments, "--flag"));
    assert_true(PARSE(&arguments, "-f", "--flag=false", "--name=false") > 0);
    assert_false(arguments_has(&arguments, "--flag"));
    assert_true(arguments_has(&arguments, "--name"));
}

static void a_later_table_hides_an_option_of_the_first(void **state) {
    static const struct option_entry own[] = {{"--name", 0, "OTHER", "hides"},
                                              {NULL, 0, NULL, NULL}};
    struct arguments arguments;
    assert_true(PARSE(&arguments, "--name", "global") > 0);
    arguments.tables[1] = own;
    assert_null(arguments_value(&arguments, "--name"));
    assert_int_equal(arguments_parse(&arguments, 2, (char *[]){"--name", "own"}, false), 2);
    assert_string_equal(arguments_value(&arguments, "--name"), "own");
    assert_string_equal(arguments_global_value(&arguments, "--name"), "global");
}

static void the_last_value_counts(void **state) {
    struct arguments arguments;
    assert_true(PARSE(&arguments, "--name", "a", "-n", "b") > 0);
    assert_string_equal(arguments_value(&arguments, "--name"), "b");
}

static void two_dashes_end_the_options(void **state) {
    struct arguments arguments;
    assert_true(PARSE(&arguments, "--", "--flag", "-") > 0);
    assert_false(arguments_has(&arguments, "--flag"));
    assert_int_equal(arguments.n_words, 2);
    assert_string_equal(arguments.words[0], "--flag");
}

static void mistakes_are_named(void **state) {
    struct arguments arguments;
    assert_int_equal(PARSE(&arguments, "--what=1"), -1);
    assert_string_equal(arguments.error, "there is no option --what");
    assert_int_equal(PARSE(&arguments, "--name"), -1);
    assert_string_equal(arguments.error, "--name needs a value: NAME");
    assert_int_equal(PARSE(&arguments, "--flag=1"), -1);
    assert_string_equal(arguments.error, "--flag takes no value but true or false");
    assert_int_equal(PARSE(&arguments, "-x"), -1);
}

static void too_many_words_or_options_are_refused(void **state) {
    struct arguments arguments;
    char *words[ARGUMENTS_OPTIONS_MAX + 1];
    for (size_t i = 0; i <= ARGUMENTS_OPTIONS_MAX; i++) {
        words[i] = "w";
    }
    assert_int_equal(parse(&arguments, words, ARGUMENTS_WORDS_MAX), ARGUMENTS_WORDS_MAX);
    assert_int_equal(parse(&arguments, words, ARGUMENTS_WORDS_MAX + 1), -1);
    for (size_t i = 0; i <= ARGUMENTS_OPTIONS_MAX; i++) {
        words[i] = "-f";
    }
    assert_int_equal(parse(&arguments, words, ARGUMENTS_OPTIONS_MAX), ARGUMENTS_OPTIONS_MAX);
    assert_int_equal(parse(&arguments, words, ARGUMENTS_OPTIONS_MAX + 1), -1);
}

static void parsing_can_stop_after_the_first_word(void **state) {
    struct arguments arguments = {.tables = {options}};
    char *argv[] = {"-f", "command", "--of-the-command"};
    assert_int_equal(arguments_parse(&arguments, 3, argv, true), 2);
    assert_string_equal(arguments.words[0], "command");
}

static void numbers_are_checked_against_their_range(void **state) {
    static const char *const wrong[] = {"", "x", "1x", "0", "11", "99999999999999999999"};
    const struct arguments_range range = {.min = 1, .max = 10};
    struct arguments arguments;
    int64_t number = 0;
    assert_true(PARSE(&arguments, "--count", "10") > 0);
    assert_true(arguments_number(&arguments, "--count", 5, range, &number));
    assert_int_equal(number, 10);
    assert_true(PARSE(&arguments, "-f") > 0);
    assert_true(arguments_number(&arguments, "--count", 5, range, &number));
    assert_int_equal(number, 5);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_true(PARSE(&arguments, "--count", (char *)wrong[i]) > 0);
        assert_false(arguments_number(&arguments, "--count", 5, range, &number));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_and_options_come_in_any_order),
        cmocka_unit_test(values_may_be_given_with_an_equals_sign_or_a_letter),
        cmocka_unit_test(a_command_after_dashes_is_left_alone),
        cmocka_unit_test(a_flag_may_be_true_or_false),
        cmocka_unit_test(a_later_table_hides_an_option_of_the_first),
        cmocka_unit_test(the_last_value_counts),
        cmocka_unit_test(two_dashes_end_the_options),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(too_many_words_or_options_are_refused),
        cmocka_unit_test(parsing_can_stop_after_the_first_word),
        cmocka_unit_test(numbers_are_checked_against_their_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
