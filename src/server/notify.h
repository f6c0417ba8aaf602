/*
 * Telling the service manager how it goes, by systemd's protocol: a datagram to $NOTIFY_SOCKET.
 * Without that variable every call does nothing.
 */
#ifndef LEASED_SERVER_NOTIFY_H
#define LEASED_SERVER_NOTIFY_H

#include <stdint.h>

/* Sends "READY=1", "STOPPING=1", "WATCHDOG=1", …. Failing to is of no consequence for us. */
void notify_send(const char *message);

/* How often "WATCHDOG=1" is to be sent, in milliseconds: half of what the manager allows.
 * 0: it does not watch us. */
uint64_t notify_watchdog_interval_ms(void);

#endif
