// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device as a SoC block: registers, an interrupt line, clocks, resets and a power domain.
 * Without power or clock it loses its state, and its registers read as ones. It has no local
 * memory, and usually does not snoop the CPU's caches.
 */
#include <linux/clk.h>
#include <linux/mod_devicetable.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/pm.h>
#include <linux/pm_runtime.h>
#include <linux/reset.h>

#include <drm/drm_print.h>

#include "qnpu_bus.h"
#include "qnpu_device.h"
#include "qnpu_irq.h"
#include "qnpu_pm.h"
#include "qnpu_recover.h"
#include "qnpu_sysfs.h"

/* A device and its SoC resources; constant after probe, except @powered. */
struct qnpu_platform {
	struct qnpu_device npu;
	struct clk_bulk_data *clocks;	/* all clocks of the device tree node */
	int clock_count;
	struct reset_control *resets;	/* NULL: the node has no resets */
	bool powered;			/* clocks on, resets deasserted; locked like power_on */
};

static struct qnpu_platform *qnpu_to_platform(struct qnpu_device *npu)
{
	return container_of(npu, struct qnpu_platform, npu);
}

static int qnpu_platform_irqs(struct qnpu_device *npu, u32 want)
{
	return 1; /* Initialised by qnpu_platform_get(). */
}

/*
 * Resets stay asserted while the clocks start, so that no old work continues. Without power or
 * clock an access may be a bus error, so interrupts are enabled last.
 */
static int qnpu_platform_power_on(struct qnpu_device *npu)
{
	struct qnpu_platform *platform = qnpu_to_platform(npu);
	int ret;

	if (platform->powered)
		return 0;
	ret = reset_control_assert(platform->resets) ?:
	      clk_bulk_prepare_enable(platform->clock_count, platform->clocks);
	if (ret)
		return ret;
	ret = reset_control_deassert(platform->resets);
	if (ret) {
		clk_bulk_disable_unprepare(platform->clock_count, platform->clocks);
		return ret;
	}
	platform->powered = true;
	qnpu_irq_enable(npu);

	return 0;
}

static void qnpu_platform_power_off(struct qnpu_device *npu)
{
	struct qnpu_platform *platform = qnpu_to_platform(npu);

	if (!platform->powered)
		return;
	qnpu_irq_disable(npu);
	platform->powered = false;
	if (reset_control_assert(platform->resets))
		drm_warn(&npu->drm, "the reset cannot be asserted\n");
	clk_bulk_disable_unprepare(platform->clock_count, platform->clocks);
}

static const struct qnpu_bus_ops qnpu_platform_bus = {
	.kind = DRM_NPU_BUS_PLATFORM,
	.line = true,
	.irqs = qnpu_platform_irqs,
	.power_on = qnpu_platform_power_on,
	.cut_off = qnpu_platform_power_off,
};

/* Probe */

static int qnpu_platform_get(struct qnpu_platform *platform, struct platform_device *pdev)
{
	struct qnpu_device *npu = &platform->npu;
	struct device *dev = &pdev->dev;
	struct resource *res;
	int ret;

	npu->regs = devm_platform_get_and_ioremap_resource(pdev, 0, &res);
	if (IS_ERR(npu->regs))
		return dev_err_probe(dev, PTR_ERR(npu->regs), "registers: reg of its node\n");
	if (resource_size(res) < NPU_BAR_REGS_BYTES)
		return dev_err_probe(dev, -EINVAL,
				     "reg of its node has %#llx bytes, the registers take %#x\n",
				     (u64)resource_size(res), NPU_BAR_REGS_BYTES);

	ret = platform_get_irq(pdev, 0);
	if (ret < 0)
		return dev_err_probe(dev, ret, "its node has no interrupt that works\n");
	npu->irq.vectors[0].irq = ret;

	platform->clock_count = devm_clk_bulk_get_all(dev, &platform->clocks);
	if (platform->clock_count < 0)
		return dev_err_probe(dev, platform->clock_count, "clocks\n");

	platform->resets = devm_reset_control_array_get_optional_exclusive(dev);
	if (IS_ERR(platform->resets))
		return dev_err_probe(dev, PTR_ERR(platform->resets), "resets\n");

	return 0;
}

static int qnpu_platform_probe(struct platform_device *pdev)
{
	struct qnpu_platform *platform;
	struct qnpu_device *npu;
	int ret;

	platform = devm_drm_dev_alloc(&pdev->dev, &qnpu_driver, struct qnpu_platform, npu.drm);
	if (IS_ERR(platform))
		return PTR_ERR(platform);
	npu = &platform->npu;
	npu->bus = &qnpu_platform_bus;
	platform_set_drvdata(pdev, npu);

	ret = qnpu_platform_get(platform, pdev);
	if (ret)
		return ret;
	ret = qnpu_platform_power_on(npu);
	if (ret)
		return dev_err_probe(&pdev->dev, ret, "power-on failed\n");
	qnpu_pm_enable(npu);
	ret = qnpu_drv_probe(npu);
	if (ret) {
		qnpu_pm_disable(npu);
		qnpu_platform_power_off(npu);
		return ret;
	}
	qnpu_pm_put(npu);

	return 0;
}

static void qnpu_platform_remove(struct platform_device *pdev)
{
	struct qnpu_device *npu = platform_get_drvdata(pdev);

	/* A device that fails to resume is lost, which prevents further accesses. */
	if (qnpu_pm_get(npu)) {
		qnpu_recover_lose(npu, "resume failed");
		pm_runtime_get_noresume(&pdev->dev);
	}
	qnpu_drv_remove(npu);
	qnpu_pm_disable(npu);
	qnpu_platform_power_off(npu);
}

/* A suspended device is already quiescent. */
static void qnpu_platform_shutdown(struct platform_device *pdev)
{
	struct qnpu_device *npu = platform_get_drvdata(pdev);

	if (!qnpu_pm_get(npu))
		qnpu_drv_shutdown(npu);
}

/* Suspend and resume */

static int qnpu_platform_resume(struct device *dev)
{
	struct qnpu_device *npu = dev_get_drvdata(dev);
	int ret = qnpu_platform_power_on(npu);

	if (ret)
		return ret;
	qnpu_recover_pulse(npu);

	return qnpu_pm_resume(dev);
}

/* A device that fails to resume is lost; the periodic work detects its return. */
static int qnpu_platform_system_resume(struct device *dev)
{
	struct qnpu_device *npu = dev_get_drvdata(dev);
	int ret = pm_runtime_force_resume(dev);

	if (ret) {
		qnpu_recover_lose(npu, "resume failed");
		qnpu_recover_pulse(npu);
	}

	return ret;
}

static const struct dev_pm_ops qnpu_platform_pm_ops = {
	.prepare = pm_sleep_ptr(qnpu_pm_prepare),
	SYSTEM_SLEEP_PM_OPS(pm_runtime_force_suspend, qnpu_platform_system_resume)
	RUNTIME_PM_OPS(qnpu_pm_suspend, qnpu_platform_resume, NULL)
};

static const struct of_device_id qnpu_platform_ids[] = {
	{ .compatible = "qnpu,qnpu1" },
	{ }
};
MODULE_DEVICE_TABLE(of, qnpu_platform_ids);

struct platform_driver qnpu_platform_driver = {
	.probe = qnpu_platform_probe,
	.remove = qnpu_platform_remove,
	.shutdown = qnpu_platform_shutdown,
	.driver = {
		.name = "qnpu",
		.of_match_table = qnpu_platform_ids,
		.dev_groups = qnpu_sysfs_groups,
		.pm = pm_ptr(&qnpu_platform_pm_ops),
	},
};
