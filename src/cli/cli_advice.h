/*
 * What to do about a failure that a server or a connection reports: its text says what happened and
 * why, and this adds the next step.
 */
#ifndef LEASED_CLI_CLI_ADVICE_H
#define LEASED_CLI_CLI_ADVICE_H

/* Prints "lease: TEXT", with the next step where one is known, on standard error. */
void cli_advice_print(const char *text);

#endif
