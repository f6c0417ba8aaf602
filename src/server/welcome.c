#include "server/welcome.h"

#include "build_info.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WELCOME_COMMAND_SIZE = PATH_MAX + 1024 };

static bool is_in_search_path(const char *search_path, const char *directory, size_t size) {
    for (const char *start = search_path; start != NULL; start = strchr(start, ':')) {
        start += *start == ':';
        if (strcspn(start, ":") == size && memcmp(start, directory, size) == 0) {
            return true;
        }
    }
    return false;
}

void welcome_lease_command(const char *program_path, const char *working_path,
                           const char *search_path, char *out_command, size_t size) {
    const char *slash = strrchr(program_path, '/');
    if (slash == NULL ||
        is_in_search_path(search_path, program_path, (size_t)(slash - program_path))) {
        snprintf(out_command, size, "lease");
        return;
    }
    size_t working_size = strlen(working_path);
    if (strncmp(program_path, working_path, working_size) == 0 &&
        program_path[working_size] == '/') {
        program_path += working_size + 1;
    }
    int folder_size = slash + 1 > program_path ? (int)(slash + 1 - program_path) : 0;
    /* In the working directory itself a bare name would be looked for elsewhere. */
    snprintf(out_command, size, "%s%.*slease", folder_size == 0 ? "./" : "", folder_size,
             program_path);
}

void welcome_print(FILE *stream, const char *client_url, const char *tls_flags,
                   const char *data_path) {
    char program_path[PATH_MAX] = "";
    char working_path[PATH_MAX] = "";
    char lease[PATH_MAX + 16] = "lease";
    ssize_t size = readlink("/proc/self/exe", program_path, sizeof program_path - 1);
    if (size > 0 && getcwd(working_path, sizeof working_path) != NULL) {
        program_path[size] = '\0';
        welcome_lease_command(program_path, working_path, getenv("PATH"), lease, sizeof lease);
    }

    static const char http[] = "http://";
    /* A scheme of its own must be named; plain HTTP is what both programs take an address for. */
    const char *address = client_url;
    if (strncmp(client_url, http, strlen(http)) == 0) {
        address += strlen(http);
    }
    /* Both programs look at 127.0.0.1:2379 by themselves. */
    bool is_default = strcmp(address, "127.0.0.1:2379") == 0;
    char etcdctl[WELCOME_COMMAND_SIZE] = "etcdctl";
    char endpoint[WELCOME_COMMAND_SIZE] = "";
    if (!is_default) {
        snprintf(etcdctl, sizeof etcdctl, "etcdctl --endpoints=%s%s", address, tls_flags);
        snprintf(endpoint, sizeof endpoint, " --endpoint=%s%s", address, tls_flags);
    }
    fprintf(stream,
            "\nleased %s serves %s\nData directory: %s\n\nTry, in another terminal:\n"
            "  %s%s status\n"
            "  %s%s lock demo -- sh -c 'echo token $LEASE_TOKEN'\n"
            "  %s put greeting hello\n\n",
            LEASED_VERSION, client_url, data_path, lease, endpoint, lease, endpoint, etcdctl);
    fflush(stream);
}
