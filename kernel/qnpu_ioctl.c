// SPDX-License-Identifier: GPL-2.0-only
/*
 * Filter for the ioctls of the DRM core.
 *
 * Some of them assume that a file has a display master, which a file of an accel node lacks.
 * DRM_IOCTL_GET_MAGIC and DRM_IOCTL_GET_UNIQUE crash (upstream/drm, patch 1).
 */
#include <linux/errno.h>

#include <drm/drm.h>
#include <drm/drm_ioctl.h>

#include "qnpu_ioctl.h"

/* Returns 0 if @cmd is driver-specific or safe on an accel node, else -EACCES. */
int qnpu_ioctl_filter(unsigned int cmd)
{
	unsigned int nr = DRM_IOCTL_NR(cmd);

	if (nr >= DRM_COMMAND_BASE && nr < DRM_COMMAND_END)
		return 0;

	switch (nr) {
	case DRM_IOCTL_NR(DRM_IOCTL_VERSION):
	case DRM_IOCTL_NR(DRM_IOCTL_GET_CAP):
	case DRM_IOCTL_NR(DRM_IOCTL_GEM_CLOSE):
	case DRM_IOCTL_NR(DRM_IOCTL_PRIME_HANDLE_TO_FD):
	case DRM_IOCTL_NR(DRM_IOCTL_PRIME_FD_TO_HANDLE):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_CREATE):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_DESTROY):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_WAIT):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_RESET):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_SIGNAL):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_QUERY):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_TRANSFER):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_EVENTFD):
#ifdef DRM_IOCTL_SET_CLIENT_NAME
	case DRM_IOCTL_NR(DRM_IOCTL_SET_CLIENT_NAME):
#endif
		return 0;
	default:
		return -EACCES;
	}
}
