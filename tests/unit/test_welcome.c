#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above before itself. */
#include <cmocka.h>

#include "server/welcome.h"

#include <stdlib.h>
#include <string.h>

static void assert_command(const char *program, const char *working, const char *search,
                           const char *expected) {
    char command[256];
    welcome_lease_command(program, working, search, command, sizeof command);
    assert_string_equal(command, expected);
}

static void an_installed_lease_is_called_by_its_name(void **state) {
    assert_command("/usr/bin/leased", "/tmp", "/bin:/usr/bin", "lease");
    assert_command("/usr/bin/leased", "/tmp", "/usr/bin", "lease");
    assert_command("/usr/bin/leased", "/tmp", "/usr/bin:/bin", "lease");
}

static void a_built_lease_is_called_by_its_path(void **state) {
    assert_command("/src/build/leased", "/src", "/usr/bin", "build/lease");
    assert_command("/src/build/leased", "/tmp", "/usr/bin", "/src/build/lease");
    assert_command("/src/build/leased", "/src/build", "/usr/bin", "./lease");
    assert_command("/src/build/leased", "/sr", "/src", "/src/build/lease");
    assert_command("/src/build/leased", "/", "/src/build2", "/src/build/lease");
    assert_command("/src/build/leased", "/src", NULL, "build/lease");
}

static void the_default_address_need_not_be_typed(void **state) {
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    welcome_print(stream, "http://127.0.0.1:2379", "", "/data");
    fclose(stream);
    assert_non_null(strstr(text, "Data directory: /data\n"));
    assert_non_null(strstr(text, "  etcdctl put greeting hello\n"));
    assert_non_null(strstr(text, "lease status\n"));
    free(text);

    stream = open_memstream(&text, &size);
    welcome_print(stream, "http://[::1]:5", "", "/data");
    fclose(stream);
    assert_non_null(strstr(text, "  etcdctl --endpoints=[::1]:5 put greeting hello\n"));
    assert_non_null(strstr(text, "lease --endpoint=[::1]:5 status\n"));
    free(text);

    stream = open_memstream(&text, &size);
    welcome_print(stream, "https://a:5", " --cacert=ca.crt", "/data");
    fclose(stream);
    assert_non_null(
        strstr(text, "  etcdctl --endpoints=https://a:5 --cacert=ca.crt put greeting hello\n"));
    assert_non_null(strstr(text, "lease --endpoint=https://a:5 --cacert=ca.crt status\n"));
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_installed_lease_is_called_by_its_name),
        cmocka_unit_test(a_built_lease_is_called_by_its_path),
        cmocka_unit_test(the_default_address_need_not_be_typed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
