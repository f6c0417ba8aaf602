#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above before itself. */
#include <cmocka.h>

#include "server/exit_code.h"

/* The line between what a restart may cure and what it cannot. */
static void every_status_has_an_exit_code_and_none_is_success(void **state) {
    (void)state;
    for (int status = 0; status < STATUS_COUNT; status++) {
        assert_int_not_equal(exit_code_of_status((enum status)status), EXIT_CODE_STOPPED);
    }
    assert_int_equal(exit_code_of_status(STATUS_TIMED_OUT), EXIT_CODE_FAILED);
    assert_int_equal(exit_code_of_status(STATUS_NO_SPACE), EXIT_CODE_DISK_FULL);
    assert_int_equal(exit_code_of_status(STATUS_IO), EXIT_CODE_DISK_FAILED);
    assert_int_equal(exit_code_of_status(STATUS_CORRUPT), EXIT_CODE_DATA_CORRUPT);
    assert_int_equal(exit_code_of_status(STATUS_UNSUPPORTED), EXIT_CODE_DATA_CORRUPT);
    assert_int_equal(exit_code_of_status(STATUS_MEMBER_REMOVED), EXIT_CODE_REMOVED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_an_exit_code_and_none_is_success),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
