// SPDX-License-Identifier: GPL-2.0-only
/*
 * The trace events' definitions; whoever raises one includes npu_trace.h only.
 */
#ifndef __CHECKER__
#define CREATE_TRACE_POINTS
#include "npu_trace.h"
#endif
