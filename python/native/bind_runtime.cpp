// SPDX-License-Identifier: MIT
#include "python/native/bind.h"
#include "python/native/lanes.h"

namespace py = pybind11;

namespace npu::python {

namespace {

/// The network with a name that Python has from here: text_of() has changed those that are not UTF-8.
const bm_net_info_t &find_network(const Runtime &runtime, const std::string &name) {
  if (name.find('\\') != std::string::npos)
    for (const std::string &bytes : runtime.names())
      if (text_of(bytes).cast<std::string>() == name) return runtime.info(bytes);
  return runtime.info(name);
}

py::list tensors_of(const bm_net_info_t &net, bool inputs) {
  py::list list;
  for (int i = 0; i < (inputs ? net.input_num : net.output_num); ++i) {
    py::list shapes;
    for (int s = 0; s < net.stage_num; ++s)
      shapes.append(shape_tuple(shape_of(inputs ? net.stages[s].input_shapes[i] : net.stages[s].output_shapes[i])));
    py::dict d;
    d["name"] = text_of(inputs ? net.input_names[i] : net.output_names[i]);
    d["dtype"] = type_name(inputs ? net.input_dtypes[i] : net.output_dtypes[i]);
    d["shapes"] = py::tuple(shapes);
    d["scale"] = inputs ? net.input_scales[i] : net.output_scales[i];
    d["zero_point"] = inputs ? net.input_zero_point[i] : net.output_zero_point[i];
    d["device"] = inputs ? net.input_loc_devices[i] : net.output_loc_devices[i];
    list.append(d);
  }
  return list;
}

py::dict network_of(const Runtime &runtime, const std::string &name) {
  const bm_net_info_t &net = find_network(runtime, name);
  py::dict d;
  d["name"] = text_of(net.name);
  d["dynamic"] = net.is_dynamic;
  d["cores"] = net.core_num;
  d["stages"] = net.stage_num;
  d["inputs"] = tensors_of(net, true);
  d["outputs"] = tensors_of(net, false);
  return d;
}

Shape shape_of_array(const py::array &array) { return {array.shape(), array.shape() + array.ndim()}; }

/// What a program can do about an array of another type than an input's.
std::string input_advice(const py::array &array, bm_data_type_t wanted) {
  const char kind = array.dtype().kind();
  const bool whole = kind == 'b' || kind == 'i' || kind == 'u', narrow = type_bytes(wanted) <= 2;
  const bool scaled = wanted == BM_BFLOAT16 ? whole || kind == 'f' : kind == 'f' && narrow && wanted != BM_FLOAT16;
  if (scaled) return "; run(..., numbers=True) takes float32 and converts it as the model says";
  return cast_advice(array, wanted);
}

void take_inputs(const bm_net_info_t &net, const py::list &values, Launch &launch) {
  for (size_t i = 0; i < values.size(); ++i) {
    Input &in = launch.inputs.emplace_back();
    if (py::isinstance<Tensor>(values[i])) {
      in.tensor = values[i].cast<TensorPtr>();
      in.type = in.tensor->type();
      in.shape = in.tensor->shape();
      continue;
    }
    const auto array = py::cast<py::array>(values[i]);
    const std::string where = input_name(net, i);
    const bm_data_type_t wanted = launch.numbers ? BM_FLOAT32 : net.input_dtypes[i];
    const std::string advice = input_advice(array, wanted);
    in.type = type_of_array(array, where, wanted, advice);
    check_type(where, in.type, wanted, advice);
    check_dense(array, where);
    in.data = array.data();
    in.shape = shape_of_array(array);
  }
}

void take_outputs(const bm_net_info_t &net, const py::list &values, Launch &launch) {
  launch.outputs.resize(static_cast<size_t>(net.output_num));
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].is_none()) continue;
    Output &out = launch.outputs[i];
    if (py::isinstance<Tensor>(values[i])) {
      out.tensor = values[i].cast<TensorPtr>();
      out.type = out.tensor->type();
      out.shape = out.tensor->shape();
      continue;
    }
    auto array = py::cast<py::array>(values[i]);
    const std::string where = output_name(net, i);
    out.type = type_of_array(array, where, launch.numbers ? BM_FLOAT32 : net.output_dtypes[i]);
    check_dense(array, where);
    if (!array.writeable()) throw Failure(where + ": the array is read-only");
    out.data = array.mutable_data();
    out.shape = shape_of_array(array);
  }
}

/// The caller keeps the arrays in `inputs` and `outputs` until the launch has ended.
Launch prepare(const RuntimePtr &runtime, const std::string &network, const py::list &inputs, const py::list &outputs,
               std::vector<int> cores, bool numbers, bool on_device) {
  const bm_net_info_t &net = find_network(*runtime, network);
  if (inputs.size() != static_cast<size_t>(net.input_num) || outputs.size() != static_cast<size_t>(net.output_num))
    throw Failure("network '" + network + "': " + std::to_string(inputs.size()) + " inputs and " +
                  std::to_string(outputs.size()) + " outputs, expected " + std::to_string(net.input_num) + " and " +
                  std::to_string(net.output_num));
  Launch launch;
  launch.runtime = runtime;
  launch.network = net.name;
  launch.cores = std::move(cores);
  launch.numbers = numbers;
  launch.on_device = on_device;
  take_inputs(net, inputs, launch);
  take_outputs(net, outputs, launch);
  launch.check();
  return launch;
}

/// New outputs as arrays around their memory, or as tensors; None for those that the caller has a place for.
py::list results_of(Launch &launch, const py::list &outputs) {
  py::list results;
  for (size_t i = 0; i < launch.outputs.size(); ++i) {
    Output &out = launch.outputs[i];
    if (!outputs[i].is_none()) {
      results.append(outputs[i]);
    } else if (out.tensor) {
      results.append(out.tensor);
    } else {
      void *const data = out.own.get();
      const py::capsule owner(data, [](void *memory) { std::free(memory); });
      (void)out.own.release();
      results.append(
          py::array(numpy_type(out.type), std::vector<py::ssize_t>(out.shape.begin(), out.shape.end()), data, owner));
    }
  }
  return results;
}

py::tuple launch_now(const RuntimePtr &runtime, const std::string &network, const py::list &inputs,
                     const py::list &outputs, std::vector<int> cores, bool numbers, bool on_device) {
  Launch launch = prepare(runtime, network, inputs, outputs, std::move(cores), numbers, on_device);
  {
    const WithoutLock free;
    launch.run();
  }
  return py::make_tuple(results_of(launch, outputs), launch.cycles);
}

JobPtr submit(Lanes &lanes, const RuntimePtr &runtime, const std::shared_ptr<Completions> &completions,
              const std::string &network, const py::list &inputs, const py::list &outputs, std::vector<int> cores,
              bool numbers, bool on_device) {
  auto job = std::make_shared<Job>();
  job->launch = prepare(runtime, network, inputs, outputs, std::move(cores), numbers, on_device);
  const WithoutLock free;
  lanes.submit(job, completions);
  return job;
}

/// Of a job that is done.
py::tuple result_of(Job &job, const py::list &outputs) {
  if (!job.error.empty()) throw Failure(job.error);
  if (job.cancelled) throw Failure("the session was closed before the launch began");
  return py::make_tuple(results_of(job.launch, outputs), job.launch.cycles);
}

void load_data(Runtime &runtime, const py::buffer &model) {
  const py::buffer_info info = model.request();
  if (!PyBuffer_IsContiguous(info.view(), 'C')) throw Failure("model: the buffer is not C-contiguous");
  const WithoutLock free;
  runtime.load(info.ptr, static_cast<size_t>(info.size * info.itemsize));
}

/// Numbers to elements of an input; elements of an output to numbers.
py::array quantize(const RuntimePtr &runtime, const std::string &network, int index, const py::array &numbers) {
  bmrt_quant_t quant;
  if (!bmrt_get_input_quant(runtime->get(), find_network(*runtime, network).name, index, &quant)) runtime_failed();
  const auto floats = py::array_t<float, py::array::c_style | py::array::forcecast>(numbers);
  py::array elements(numpy_type(quant.dtype), std::vector<py::ssize_t>(floats.shape(), floats.shape() + floats.ndim()));
  if (!bmrt_quantize(&quant, floats.data(), static_cast<uint64_t>(floats.size()), elements.mutable_data()))
    runtime_failed();
  return elements;
}

py::array dequantize(const RuntimePtr &runtime, const std::string &network, int index, const py::array &elements) {
  bmrt_quant_t quant;
  if (!bmrt_get_output_quant(runtime->get(), find_network(*runtime, network).name, index, &quant)) runtime_failed();
  check_type("dequantize", type_of_array(elements, "dequantize", quant.dtype), quant.dtype);
  check_dense(elements, "dequantize");
  py::array_t<float> numbers(std::vector<py::ssize_t>(elements.shape(), elements.shape() + elements.ndim()));
  if (!bmrt_dequantize(&quant, elements.data(), static_cast<uint64_t>(elements.size()), numbers.mutable_data()))
    runtime_failed();
  return numbers;
}

}  // namespace

void bind_runtime(py::module_ &module) {
  using Unlocked = py::call_guard<WithoutLock>;
  module.def(
      "load_plugin",
      [](const std::string &path) {
        if (!bmrt_load_plugin(path.c_str())) runtime_failed();
      },
      py::arg("path"), Unlocked());
  py::class_<Runtime, RuntimePtr>(module, "Runtime")
      .def(py::init<std::vector<DevicePtr>>(), py::arg("devices"), Unlocked())
      .def("load", py::overload_cast<const std::string &>(&Runtime::load), py::arg("path"), Unlocked())
      .def("load_data", load_data, py::arg("model"))
      .def("names",
           [](const Runtime &runtime) {
             py::list names;
             for (const std::string &name : runtime.names()) names.append(text_of(name));
             return names;
           })
      .def("network", network_of, py::arg("name"))
      .def("set_max_launches", &Runtime::set_max_launches, py::arg("count"))
      .def_property_readonly("in_flight", method(&Runtime::in_flight))
      .def("close", method(&Runtime::close), Unlocked())
      .def("launch", launch_now, py::arg("network"), py::arg("inputs"), py::arg("outputs"), py::arg("cores"),
           py::arg("numbers"), py::arg("on_device"))
      .def("quantize", quantize, py::arg("network"), py::arg("index"), py::arg("numbers"))
      .def("dequantize", dequantize, py::arg("network"), py::arg("index"), py::arg("elements"));
  py::class_<Completions, std::shared_ptr<Completions>>(module, "Completions")
      .def(py::init<>())
      .def_property_readonly("fd", method(&Completions::fd))
      .def("take", method(&Completions::take));
  py::class_<Job, JobPtr>(module, "Job").def("result", result_of, py::arg("outputs")).def("forget", [](Job &job) {
    const WithoutLock free;
    job.forget();
  });
  py::class_<Lanes, std::shared_ptr<Lanes>>(module, "Lanes")
      .def(py::init<>())
      .def("submit", submit, py::arg("runtime").none(false), py::arg("completions").none(false), py::arg("network"),
           py::arg("inputs"), py::arg("outputs"), py::arg("cores"), py::arg("numbers"), py::arg("on_device"))
      .def("stop", method(&Lanes::stop))
      .def_property_readonly("threads", method(&Lanes::threads));
}

}  // namespace npu::python
