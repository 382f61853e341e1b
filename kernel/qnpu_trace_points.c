// SPDX-License-Identifier: GPL-2.0-only
/* Definitions of the trace events; other files include qnpu_trace.h only. */
#ifndef __CHECKER__
#define CREATE_TRACE_POINTS
#include "qnpu_trace.h"

EXPORT_TRACEPOINT_SYMBOL_GPL(qnpu_stale_line);
#endif
