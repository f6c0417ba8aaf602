#include "server/auto_certificate.h"

#include <stdio.h>
#include <string.h>

enum { HOSTS_MAX = 2 * URL_LIST_MAX + 4 };

struct host_set {
    size_t n;
    const char *hosts[HOSTS_MAX];
};

static void add_host(struct host_set *set, const char *host) {
    for (size_t i = 0; i < set->n; i++) {
        if (strcmp(set->hosts[i], host) == 0) {
            return;
        }
    }
    if (set->n < HOSTS_MAX) {
        set->hosts[set->n++] = host;
    }
}

static void add_hosts(struct host_set *set, const struct url_list *list) {
    for (size_t i = 0; i < list->n; i++) {
        if (!url_is_unix(&list->urls[i]) && !url_is_wildcard(&list->urls[i])) {
            add_host(set, list->urls[i].host);
        }
    }
}

enum status auto_certificate_make(const char *data_dir, const char *name,
                                  const struct url_list *advertised,
                                  const struct url_list *listened, struct tls_auto_files *out_files,
                                  char *out_error, size_t error_size) {
    struct host_set set = {.n = 0};
    char folder[TLS_AUTO_PATH_SIZE_MAX];
    int size = snprintf(folder, sizeof folder, "%s/fixtures/%s", data_dir, name);
    if (size < 0 || (size_t)size >= sizeof folder) {
        snprintf(out_error, error_size,
                 "--data-dir: the path is too long for --auto-tls and --peer-auto-tls");
        return STATUS_INVALID;
    }
    add_hosts(&set, advertised);
    add_hosts(&set, listened);
    add_host(&set, "localhost");
    add_host(&set, "127.0.0.1");
    add_host(&set, "::1");
    return tls_auto_certificate(folder, set.hosts, set.n, out_files, out_error, error_size);
}
