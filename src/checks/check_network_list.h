/*
 * Networks that checks may connect to: "10.0.0.0/8,fd00::/8". What is asked is the address itself,
 * after a name was resolved, so that no name leads around the list. Pure.
 */
#ifndef LEASED_CHECKS_CHECK_NETWORK_LIST_H
#define LEASED_CHECKS_CHECK_NETWORK_LIST_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { CHECK_NETWORKS_MAX = 64 };

struct check_network_list {
    size_t n;
    struct {
        uint8_t address[16]; /* IPv4 as ::ffff:a.b.c.d */
        unsigned bits;
    } networks[CHECK_NETWORKS_MAX];
};

/* An empty text: every address is allowed. STATUS_INVALID: not a list of networks. */
enum status check_network_list_parse(const char *text, struct check_network_list *out_list);
bool check_network_list_allows(const struct check_network_list *list,
                               const struct sockaddr *address);

#endif
