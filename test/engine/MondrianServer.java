import java.net.InetSocketAddress;
import mondrian.xmla.impl.MondrianXmlaServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/**
 * Serves Mondrian over XMLA on loopback, under the path that it has as mondrian.war: MondrianServer PORT DATASOURCES_URL.
 * Prints the port it got.
 */
public final class MondrianServer {
  public static void main(String[] arguments) throws Exception {
    Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
    ServletHolder xmla = new ServletHolder(new MondrianXmlaServlet());
    xmla.setInitParameter("DataSourcesConfig", arguments[1]);
    xmla.setInitParameter("CharacterEncoding", "UTF-8");
    ServletContextHandler context = new ServletContextHandler();
    context.addServlet(xmla, "/mondrian/xmla");
    server.setHandler(context);
    try {
      server.start();
    } catch (Exception failure) {
      // Jetty's threads would keep a server alive that could not bind its port.
      failure.printStackTrace();
      System.exit(1);
    }
    System.out.println("port " + ((ServerConnector) server.getConnectors()[0]).getLocalPort());

    // Standard input ends when the parent dies, however it dies: no engine is left behind.
    while (System.in.read() >= 0) {}
    System.exit(0);
  }
}
