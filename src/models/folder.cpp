#include <base/fail.hpp>
#include <base/files.hpp>
#include <base/json.hpp>
#include <rapt/models/folder.hpp>
#include <rapt/models/safetensors.hpp>

#include <cmath>
#include <set>

namespace rapt::models {
namespace {

constexpr const char* kConfig = "config.json";
constexpr const char* kWeights = "model.safetensors";

/// The tensors of the file that no layer asked for, one a line.
std::string unexpected(const SafetensorsFile& file, const std::set<std::string>& asked) {
  std::string list;
  for (const auto& name : file.names())
    if (!asked.contains(name)) list += "\n  '" + name + "' is in the file and not in the model";
  return list;
}

/// f16 ends at 65504; a weight beyond it would be saved as infinity without a word.
void refuse_overflow(const nn::Parameters::Entry& entry, const Tensor& saved) {
  const auto before = entry.tensor.to_vector(), after = saved.to_vector();
  for (size_t i = 0; i < before.size(); ++i)
    require<DTypeError>(std::isfinite(after[i]) || !std::isfinite(before[i]),
                        "[save] '{}' holds {} at element {}, more than f16 can: save as bf16 or f32", entry.name,
                        before[i], i);
}

}  // namespace

template <class Model>
void save(const Model& model, const std::filesystem::path& folder, DType dtype) {
  require<DTypeError>(is_floating(dtype), "[save] weights as {}: f32, bf16 or f16 is needed", to_string(dtype));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require<FileError>(!error, "{}: cannot be created: {}", folder.string(), error.message());
  std::vector<NamedTensor> tensors;
  for (const auto& entry : model.parameters().entries()) {
    tensors.push_back({entry.name, entry.tensor.to(dtype)});
    if (dtype == DType::f16) refuse_overflow(entry, tensors.back().tensor);
  }
  save_safetensors(folder / kWeights, tensors, {{"format", "pt"}});
  write_file_atomically(folder / kConfig, model.config().to_json());
}

template <class Model>
std::unique_ptr<Model> load(const std::filesystem::path& folder, DType dtype) {
  const std::string config_path = (folder / kConfig).string(), weights_path = (folder / kWeights).string();
  const auto config = Model::Config::from_json(read_file(config_path), config_path);
  const SafetensorsFile file = SafetensorsFile::open(weights_path);
  std::set<std::string> asked;
  auto parameters = std::make_unique<nn::Parameters>(
      [&](const std::string& name) {
        asked.insert(name);
        return file.has(name) ? file.tensor(name) : Tensor{};
      },
      dtype);
  std::unique_ptr<Model> model;
  std::string complaint;
  try {
    model = std::make_unique<Model>(config, std::move(parameters));
  } catch (const FileError& error) {
    complaint = error.what();
  }
  complaint += unexpected(file, asked);
  require<FileError>(complaint.empty(), "{}: does not fit {}: {}", weights_path, kConfig, complaint);
  return model;
}

std::string model_type(const std::filesystem::path& folder) {
  const std::string path = (folder / kConfig).string();
  const Json json = parse_json<ConfigError>(read_file(path), path);
  require<ConfigError>(json.is_object() && json.contains("model_type") && json["model_type"].is_string(),
                       "{}: has no 'model_type'", path);
  return json["model_type"].get<std::string>();
}

#define RAPT_FOLDER(Model)                                               \
  template void save(const Model&, const std::filesystem::path&, DType); \
  template std::unique_ptr<Model> load(const std::filesystem::path&, DType);
RAPT_FOLDER(EncoderDecoder)
RAPT_FOLDER(EncoderOnly)
RAPT_FOLDER(DecoderOnly)
RAPT_FOLDER(RecurrentSeq2Seq)

}  // namespace rapt::models
