/* SPDX-License-Identifier: MIT */
#ifndef BMRUNTIME_LOG_H
#define BMRUNTIME_LOG_H

/*
 * Which messages the runtime prints. Levels are those of the environment's BMRT_LOG_VERSION. The runtime's only
 * messages are failures, at the level WRONG, which is the default: they are printed unless the level is FATAL.
 */

#include "bmruntime_interface.h"

#ifdef __cplusplus
#pragma push_macro("DEBUG") /* programs define it for themselves */
#undef DEBUG
enum class BMRT_LogLevel : int { DEBUG = -1, INFO = 0, WARNING = 1, WRONG = 2, FATAL = 3 };
#pragma pop_macro("DEBUG")
#else
typedef int BMRT_LogLevel; /* -1 debug, 0 info, 1 warning, 2 wrong, 3 fatal */
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- messages ---- */

/* The level of the process: what bmrt_set_current_log_level() has set, else that of BMRT_LOG_VERSION, else WRONG. */
BMRT_API BMRT_LogLevel bmrt_get_current_log_level(void);
/* From now on, whatever the environment says. */
BMRT_API void bmrt_set_current_log_level(BMRT_LogLevel level);

#ifdef __cplusplus
}
#endif

#endif /* BMRUNTIME_LOG_H */
