// first file of the layer
