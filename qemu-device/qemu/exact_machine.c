/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A virtio port through which the guest controls its machine: each line that
 * it writes is a command of QMP, which is carried out and answered by a line
 * before the guest executes its next instruction.
 *
 * The work is done between two instructions, outside of the section of RCU
 * in which a processor runs, so that what an earlier command deleted can be
 * waited for.
 */

#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "qemu/module.h"
#include "qemu/rcu.h"
#include "qemu/units.h"
#include "qapi/error.h"
#include "qobject/qdict.h"
#include "qobject/qjson.h"
#include "hw/core/cpu.h"
#include "hw/virtio/virtio-serial.h"
#include "migration/qemu-file-types.h"
#include "migration/vmstate.h"
#include "monitor/monitor-internal.h"
#include "system/runstate.h"

#define TYPE_MACHINE_PORT "virtserialqmp"
OBJECT_DECLARE_SIMPLE_TYPE(MachinePort, MACHINE_PORT)

/* Under the BQL. */
struct MachinePort {
    VirtIOSerialPort parent_obj;

    bool connected;                 /* the guest has opened it */
    GString *asked;                 /* what was not carried out yet */
    GString *answers;               /* what the guest has no room for yet */
};

/* --- commands ------------------------------------------------------------- */

static QDict *machine_error(Error *error)
{
    QDict *answer = qdict_from_jsonf_nofail(
        "{ 'error': { 'class': 'GenericError', 'desc': %s } }",
        error_get_pretty(error));

    error_free(error);
    return answer;
}

/* Those that wait in the main loop would wait there for this thread. */
static bool machine_can_do(QObject *request)
{
    QDict *dict = qobject_to(QDict, request);
    const char *name = dict ? qdict_get_try_str(dict, "execute") : NULL;
    const QmpCommand *command =
        name ? qmp_find_command(&qmp_commands, name) : NULL;

    return !command || !(command->options & QCO_COROUTINE);
}

/* NULL: the command has no answer. */
static QDict *machine_do(const char *line)
{
    Error *error = NULL;
    QDict *answer;
    QObject *request = qobject_from_json(line, &error);

    if (!request) {
        error_prepend(&error, "this is not a line of JSON: ");
        return machine_error(error);
    }
    if (machine_can_do(request)) {
        drain_call_rcu();
        answer = qmp_dispatch(&qmp_commands, request, false, NULL);
    } else {
        error_setg(&error, "an exact board cannot do this");
        answer = machine_error(error);
    }
    qobject_unref(request);
    return answer;
}

/* --- the port ------------------------------------------------------------- */

static void machine_deliver(MachinePort *port)
{
    VirtIOSerialPort *serial = VIRTIO_SERIAL_PORT(port);
    size_t bytes = MIN(virtio_serial_guest_ready(serial), port->answers->len);

    if (bytes) {
        bytes = virtio_serial_write(serial, (uint8_t *)port->answers->str,
                                    bytes);
        g_string_erase(port->answers, 0, bytes);
    }
}

static void machine_work(CPUState *cpu, run_on_cpu_data data)
{
    MachinePort *port = data.host_ptr;
    char *end;

    /* After one that stops the machine, the next follows when it goes on. */
    while (!cpu->stop && (end = strchr(port->asked->str, '\n'))) {
        g_autofree char *line =
            g_strndup(port->asked->str, end - port->asked->str);
        g_autoptr(GString) json = NULL;
        QDict *answer;

        g_string_erase(port->asked, 0, end + 1 - port->asked->str);
        if (!*g_strstrip(line)) {
            continue;
        }
        answer = machine_do(line);
        if (answer) {
            json = qobject_to_json(QOBJECT(answer));
            g_string_append_printf(port->answers, "%s\n", json->str);
            qobject_unref(answer);
        }
    }
    machine_deliver(port);
}

static void machine_work_soon(MachinePort *port)
{
    async_run_on_cpu(current_cpu ?: first_cpu, machine_work,
                     RUN_ON_CPU_HOST_PTR(port));
}

static void machine_goes_on(void *opaque, bool running, RunState state)
{
    MachinePort *port = opaque;

    if (running && port->asked->len) {
        machine_work_soon(port);
    }
}

static ssize_t machine_have_data(VirtIOSerialPort *serial, const uint8_t *data,
                                 ssize_t bytes)
{
    MachinePort *port = MACHINE_PORT(serial);

    /* A line of QMP has no zeros; one would hide the end of the line. */
    for (ssize_t i = 0; i < bytes; i++) {
        g_string_append_c(port->asked, data[i] ? data[i] : ' ');
    }
    machine_work_soon(port);
    return bytes;
}

static void machine_guest_writable(VirtIOSerialPort *serial)
{
    machine_deliver(MACHINE_PORT(serial));
}

/*
 * What nobody has read is not for the next one who opens the port. Called when
 * a snapshot was loaded, too, which opens nothing.
 */
static void machine_set_guest_connected(VirtIOSerialPort *serial, int connected)
{
    MachinePort *port = MACHINE_PORT(serial);

    if (port->connected == !!connected) {
        return;
    }
    port->connected = connected;
    g_string_truncate(port->asked, 0);
    g_string_truncate(port->answers, 0);
}

/* --- snapshots ------------------------------------------------------------- */

#define TEXT_MAX (16 * MiB)

static int machine_put_text(QEMUFile *f, void *pv, size_t size,
                            const VMStateField *field, JSONWriter *vmdesc)
{
    GString *text = *(GString **)pv;

    qemu_put_be32(f, text->len);
    qemu_put_buffer(f, (uint8_t *)text->str, text->len);
    return 0;
}

static int machine_get_text(QEMUFile *f, void *pv, size_t size,
                            const VMStateField *field)
{
    GString *text = *(GString **)pv;
    uint32_t bytes = qemu_get_be32(f);

    if (bytes > TEXT_MAX) {
        return -EINVAL;
    }
    g_string_set_size(text, bytes);
    return qemu_get_buffer(f, (uint8_t *)text->str, bytes) == bytes ? 0
                                                                    : -EINVAL;
}

static const VMStateInfo machine_text = {
    .name = "text",
    .get = machine_get_text,
    .put = machine_put_text,
};

static const VMStateDescription machine_vmstate = {
    .name = TYPE_MACHINE_PORT,
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]) {
        VMSTATE_BOOL(connected, MachinePort),
        VMSTATE_SINGLE(asked, MachinePort, 0, machine_text, GString *),
        VMSTATE_SINGLE(answers, MachinePort, 0, machine_text, GString *),
        VMSTATE_END_OF_LIST()
    },
};

/* --- life ----------------------------------------------------------------- */

static void machine_realize(DeviceState *dev, Error **errp)
{
    MachinePort *port = MACHINE_PORT(dev);

    port->asked = g_string_new(NULL);
    port->answers = g_string_new(NULL);
    qemu_add_vm_change_state_handler(machine_goes_on, port);
    virtio_serial_open(VIRTIO_SERIAL_PORT(port));
}

static void machine_class_init(ObjectClass *class, void *data)
{
    DeviceClass *dc = DEVICE_CLASS(class);
    VirtIOSerialPortClass *port = VIRTIO_SERIAL_PORT_CLASS(class);

    port->realize = machine_realize;
    port->have_data = machine_have_data;
    port->guest_writable = machine_guest_writable;
    port->set_guest_connected = machine_set_guest_connected;
    dc->vmsd = &machine_vmstate;
    dc->desc = "port on which the guest controls its machine";
    dc->hotpluggable = false;
}

static const TypeInfo machine_port_type = {
    .name = TYPE_MACHINE_PORT,
    .parent = TYPE_VIRTIO_SERIAL_PORT,
    .instance_size = sizeof(MachinePort),
    .class_init = machine_class_init,
};

static void machine_register_types(void)
{
    type_register_static(&machine_port_type);
}

type_init(machine_register_types)
