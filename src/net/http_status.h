/*
 * The reason phrases of HTTP/1's status line.
 */
#ifndef LEASED_NET_HTTP_STATUS_H
#define LEASED_NET_HTTP_STATUS_H

/* Never NULL. */
const char *http_status_reason(unsigned status);

#endif
