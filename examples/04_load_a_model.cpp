// Saving and loading: a folder with config.json and model.safetensors, the same logits after, and what a wrong file says.
#include <rapt/rapt.hpp>

#include <cstdio>
#include <filesystem>

using namespace rapt;

int main() {
  const auto folder = std::filesystem::temp_directory_path() / "rapt_example_model";

  models::DecoderOnlyConfig config = models::DecoderOnlyConfig::llama_shape();
  config.vocabulary = 32;
  config.d_model = 16;
  config.d_ff = 48;
  config.layers = 2;
  config.heads = 4;
  config.key_heads = 2;
  const models::DecoderOnly model(config, 42);
  models::save(model, folder);
  std::printf("saved %ld parameters as %s\n", model.parameters().count(), models::model_type(folder).c_str());

  const auto loaded = models::load<models::DecoderOnly>(folder);
  for (const auto& entry : loaded->parameters().entries())
    std::printf("  %-28s %s\n", entry.name.c_str(), to_string(entry.tensor.shape()).c_str());

  const Tensor tokens = Tensor::from<int32_t>({1, 5, 9, 13, 17}, {1, 5});
  NoGrad no_grad;
  nn::Context ctx;
  const auto before = model.logits(model.decode(tokens, {}, ctx)).to_vector();
  const auto after = loaded->logits(loaded->decode(tokens, {}, ctx)).to_vector();
  std::printf("logits after loading: %s\n", before == after ? "the same" : "DIFFERENT");

  bool refused = false;
  try {
    models::load<models::EncoderDecoder>(folder);
  } catch (const Error& error) {
    refused = true;
    std::printf("loading it as another family: %s\n", error.what());
  }
  std::filesystem::remove_all(folder);
  return before == after && refused ? 0 : 1;
}
